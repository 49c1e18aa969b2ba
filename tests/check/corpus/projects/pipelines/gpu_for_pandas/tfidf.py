import os
from pathlib import Path

import joblib
import scipy.sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

docs = sorted(Path("/opt/ml/processing/docs").rglob("*.txt"))
vectorizer = TfidfVectorizer(input="filename", min_df=5, max_df=0.4, sublinear_tf=True)
matrix = vectorizer.fit_transform(map(str, docs))
svd = TruncatedSVD(256, random_state=0)
os.makedirs("/opt/ml/processing/vectors", exist_ok=True)
scipy.sparse.save_npz("/opt/ml/processing/vectors/tfidf.npz", matrix)
joblib.dump({"vectorizer": vectorizer, "svd": svd.fit(matrix)}, "/opt/ml/processing/vectors/pipeline.joblib")
