"""Files that are made to take long, or that hold data, are checked in bounded steps and memory."""

import time
from pathlib import Path

import pytest

from gpuproof.linter.engine import check_paths
from support.check_helpers import value_of, write_files

HEAD = "import sagemaker\nfrom sagemaker.pytorch import PyTorch\n"
TORCH = "import torch\nfrom torch.utils.data import DataLoader\n"
USE = '\nPyTorch(entry_point=s, instance_type="ml.g5.xlarge", hyperparameters={"a": s})\n'


def doubled(count: int, first: str, step: str) -> str:
    return (
        f"s0 = {first}\n"
        + "".join(f"s{n + 1} = {step.format(f's{n}')}\n" for n in range(count))
        + f"s = s{count}\n"
    )


BLOW_UPS = {
    "a class of a module, and an object with its name": TORCH
    + "import pdb\nclass Shared(pdb.Pdb):\n    def __init__(self):\n        pdb.Pdb.__init__(self)\n"
    + "    def stop(self):\n        self.cmdloop()\npdb = Shared()\n",
    "string doublings": HEAD + doubled(60, '"ab"', "{0} + {0}") + USE,
    "doublings of one name": HEAD + 's = "ab"\n' + "s = s + s\n" * 60 + USE,
    "doublings in f-strings": HEAD + doubled(60, '"ab"', 'f"{{{0}}}{{{0}}}"') + USE,
    "doublings by format": HEAD + doubled(60, '"ab"', '"{{}}{{}}".format({0}, {0})') + USE,
    "doublings by percent": HEAD + doubled(60, '"ab"', '"%s%s" % ({0}, {0})') + USE,
    "doublings by replace": HEAD + doubled(60, '"aa"', '{0}.replace("a", {0})') + USE,
    "doublings of paths": HEAD + "import os\n" + doubled(60, '"a"', "os.path.join({0}, {0})") + USE,
    "squares": HEAD + doubled(60, "3", "{0} * {0}") + USE,
    "floats that overflow": HEAD + doubled(12, "10.0", "{0} * {0}") + f"s = s * {10**400}" + USE,
    "a wide field": HEAD + 's = "%1000000000d" % 1' + USE,
    "a wide field of format": HEAD + 's = "{:>1000000000}".format(1)' + USE,
    "a width from a value": HEAD + 's = "{:>{}}".format(1, 1000000000)' + USE,
    "a large integer": HEAD + f"n = 0x{'f' * 9000}\ns = f'{{n}}'" + USE,
    "alternatives": HEAD + doubled(40, '"a" if x else "b"', '{0} + "c" if y else {0} + "d"') + USE,
    "nested mappings": HEAD + doubled(40, "{}", "{{'a': {0}, 'b': {0}}}") + USE,
    "nested lists": HEAD + doubled(40, "[]", "[{0}, {0}]") + USE,
    "names in a circle": HEAD + "a = b\nb = c\nc = a\ns = a" + USE,
    "arguments in a circle": HEAD
    + "import argparse\np = argparse.ArgumentParser()\nargs = p.parse_args()\np.add_argument('--x', default=args.x)\ns = args.x"
    + USE,
    "many bindings of a name": HEAD + "".join(f"if x: s = 'a{n}'\n" for n in range(3000)) + USE,
    "many updates of a mapping": HEAD + "s = {}\n" + "".join(f"s['k{n}'] = {n}\n" for n in range(3000)) + USE,
    "many uses of one mapping": HEAD
    + "s = {'instance_type': 'ml.g5.xlarge'}\n"
    + "PyTorch(entry_point='train.py', **s)\n" * 400,
    "tensor sums": TORCH
    + doubled(60, "torch.zeros(1)", "{0} + {0}")
    + "s.cuda()\nfor x in DataLoader(s): s(x).backward()\n",
    "tensors by turns": TORCH
    + "x = torch.zeros(1)\n"
    + "".join(f"for i in y:\n    x = x + x\n    z{n} = x\n    x.to('cuda')\n" for n in range(300))
    + "x.cuda().backward()\n",
    "functions that call each other": TORCH
    + "".join(
        f"def f{n}(a):\n    f{n + 1}(a); f{n + 1}(a); f{n + 1}(a)\n    return f{n + 1}(a) + f{n + 1}(a)\n"
        for n in range(60)
    )
    + "def f60(a):\n    torch.save(a, 'x')\n    a.cuda().backward()\n    return a\nf0(torch.zeros(1)).to('cuda')\n",
    "a long chain": HEAD + "s = " + " + ".join(["'a'"] * 900) + USE,
}


@pytest.mark.parametrize("name", BLOW_UPS)
def test_a_blow_up_is_cut(name: str, tmp_path: Path) -> None:
    write_files(tmp_path, {"launch.py": BLOW_UPS[name]})
    start = time.process_time()
    assert check_paths([str(tmp_path)]).internal_errors == ()
    # Without limits, these take minutes, or all memory; with them, milliseconds.
    assert time.process_time() - start < 60


def test_modules_that_need_each_other_end(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {"a.py": f"{HEAD}from b import y\ns = x = y{USE}", "b.py": f"{HEAD}from a import x\ns = y = x{USE}"},
    )
    check_paths([str(tmp_path)])


def test_texts_below_the_limit_are_still_value_of() -> None:
    assert value_of(doubled(10, '"ab"', "{0} + {0}"), "s").text == "ab" * 1024


def test_a_name_that_is_used_twice_has_the_same_value_twice() -> None:
    assert value_of('a = "x"\nb = a + a\nc = b + b + a', "c").text == "xxxxx"


def test_a_list_of_data_is_unknown_and_a_short_one_is_not() -> None:
    assert value_of(f"s = [{'1, ' * 20_000}]", "s").is_unknown
    assert len(value_of(f"s = [{'1, ' * 100}]", "s").items or ()) == 100


def test_a_file_of_numbers_takes_no_longer_than_its_parsing(tmp_path: Path) -> None:
    numbers = f"{HEAD}data = [{'1,' * 400_000}]\nmore = {{{'1:1,' * 100_000}}}\n"
    write_files(tmp_path, {"launch.py": f"{numbers}\ns = data{USE}"})
    start = time.process_time()
    check_paths([str(tmp_path)])
    assert time.process_time() - start < 60
