"""Data in place of public data sets that scripts of TensorFlow load and this machine does not have: `--data synthetic`.

`keras_datasets.py` has those of Keras that are no images, `tfds.py` those of TensorFlow Datasets, and `image_folders.py` folders of images. Sizes are
data, in `trace/data`.
"""

from gpuproof.trace.tensorflow.synthetic.install import install

__all__ = ["install"]
