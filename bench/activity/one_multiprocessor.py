"""One thread that does nothing for the whole time: python one_multiprocessor.py SECONDS."""

import sys

from kernels import Gpu, until

gpu = Gpu()
for _ in until(float(sys.argv[1])):
    gpu.spin(0.5)
