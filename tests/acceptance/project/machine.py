"""Facts about the machine that runs the script; standard library only, Python 3.9."""

import glob
import os
import platform
import re
import shutil
import subprocess

# The PATH of user data: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html runs it as root, without a login shell.
ROOT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def describe():
    """All facts, as JSON values; None for what this machine does not have."""
    return {
        "driver": driver(),
        "compat": compat(),
        "library_path": os.environ.get("LD_LIBRARY_PATH"),
        "os": _first(r'^PRETTY_NAME="?([^"\n]*)', "/etc/os-release"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "system_python": system_python(),
        "aws_on_root_path": shutil.which("aws", path=ROOT_PATH) is not None,
        "model_device": device_of(os.environ["SM_MODEL_DIR"]),
    }


def driver():
    """Version of the NVIDIA driver: https://docs.kernel.org/filesystems/proc.html, written by the driver itself."""
    return _first(r"Kernel Module\D*\s([0-9.]+)", "/proc/driver/nvidia/version")


def compat():
    """Versions of CUDA's forward compatibility libraries in the image."""
    found = [
        re.search(r"\.so\.(\d+\.[0-9.]+)$", name) for name in glob.glob("/usr/local/cuda/compat/libcuda.so.*")
    ]
    return sorted({match.group(1) for match in found if match})


def system_python():
    """Version of the Python that runs the agent on EC2."""
    try:
        done = subprocess.run(["/usr/bin/python3", "--version"], stdout=subprocess.PIPE, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode().split()[-1]


def device_of(folder):
    """The device of the file system that has a folder."""
    best = ("", None)
    with open("/proc/self/mountinfo") as file:
        for line in file:
            point, source = line.split()[4], line.partition(" - ")[2].split()[1]
            if (folder + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best[0]):
                best = (point, source)
    return best[1]


def _first(pattern, path):
    try:
        with open(path) as file:
            found = re.search(pattern, file.read(), re.MULTILINE)
    except OSError:
        return None
    return found.group(1) if found else None
