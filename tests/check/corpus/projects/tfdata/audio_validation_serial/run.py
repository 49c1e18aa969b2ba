import sys

from audio.data import AudioData
from audio.model import vad

data = AudioData(sys.argv[1])
model = vad(data.rate)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(data.train(), validation_data=data.valid(), epochs=25, steps_per_epoch=500)
model.save("vad.keras")
