"""Pickles that try to run code, to take all memory, or to bring the process down, for tests.

``python -m tests.datasets.hostile_pickles FOLDER BYTES`` reads each file of a folder and prints as
json what came of it: the tests run that in a process of its own, which may take BYTES at most.
"""

import json
import pickle
import resource
import struct
import sys
from pathlib import Path

import numpy as np

DTYPE = b"cnumpy\ndtype\n"
NDARRAY = b"cnumpy\nndarray\n"
RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
SCALAR = b"cnumpy.core.multiarray\nscalar\n"
FROM_BUFFER = b"cnumpy.core.numeric\n_frombuffer\n"
ENCODE = b"c_codecs\nencode\n"
EMPTY_ARRAY = RECONSTRUCT + b"(" + NDARRAY + b"(K\x00tU\x01btR"
F4 = DTYPE + b"(U\x02f4I00\nI01\ntR(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"


def number(value: int) -> bytes:
    """The opcode of an integer of up to 255 bytes."""
    data = pickle.encode_long(value)
    return b"\x8a" + struct.pack("<B", len(data)) + data


def array(shape: bytes, dtype: bytes = F4, data: bytes = b"C\x04\0\0\0\0") -> bytes:
    """An empty array that gets a state."""
    return EMPTY_ARRAY + b"(K\x01" + shape + dtype + b"I00\n" + data + b"tb."


HOSTILE: dict[str, bytes] = {
    # names, and the ways to call them
    "global": b"cos\nsystem\n(U\x04truetR.",
    "global of protocol 4": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
    "inst": b"(U\x04trueios\nsystem\n.",
    "obj": b"(cos\nsystem\nU\x04trueo.",
    "newobj": b"\x80\x02csubprocess\nPopen\nU\x04true\x85\x81.",
    "newobj of an allowed name": b"\x80\x02" + NDARRAY + number(10**12) + b"\x85\x81.",
    "builtin of an allowed module": b"cnumpy\nload\n(U\x01xtR.",
    "dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0edtype.__init__\x93.",
    "getattr": b"cbuiltins\ngetattr\n(U\x01xU\x01ytR.",
    "extension code": b"\x80\x02\x82\x01.",
    "extension code of four bytes": b"\x80\x02\x84\x01\0\0\0.",
    "persistent id": b"Pthere\n.",
    "persistent id of protocol 1": b"U\x05thereQ.",
    "out-of-band buffer": b"\x80\x05\x97.",
    # changing what is allowed
    "state of a constructor": ENCODE + b"}U\x01aK\x01sb.",
    "slots of a constructor": ENCODE + b"(N}U\x08__call__K\x01stb.",
    "class of a constructor": ENCODE + b"(N}U\x09__class__" + DTYPE + b"stb.",
    "state of a list": b"]}U\x06appendK\x01sb.",
    # allowed names with evil arguments
    "ndarray called": NDARRAY + b"(" + number(10**12) + b"tR.",
    "reconstruct a terabyte": RECONSTRUCT + b"(" + NDARRAY + b"(" + number(10**12) + b"tU\x01btR.",
    "reconstruct objects": RECONSTRUCT + b"(" + NDARRAY + b"(K\x00tU\x01OtR.",
    "reconstruct another class": RECONSTRUCT + b"(" + DTYPE + b"(K\x00tU\x01btR.",
    "dtype of objects": DTYPE + b"(U\x01OtR.",
    "dtype of fields": DTYPE + b"(U\x05f4,O8tR.",
    "dtype of a gigabyte": DTYPE + b"(U\x08U9999999tR.",
    "dtype from a list": DTYPE + b"(](U\x01aU\x01Otat(R.",
    "dtype that becomes objects": DTYPE + b"(U\x02f4tR(K\x03U\x01|U\x01ONNK\x08K\x08K\x3ftb.",
    "shape of a terabyte": array(b"(" + number(10**12) + b"t"),
    "negative shape": array(b"(J\xff\xff\xff\xffJ\xff\xff\xff\xfft"),
    "shape that overflows": array(b"(" + number(2**62) + b"K\x04K\x00K\x01t"),
    "shape of a list": array(b"(](K\x01eK\x01t"),
    "a thousand dimensions": array(b"(" + b"K\x01" * 1000 + b"t"),
    "list for bytes": array(b"(K\x01t", data=b"](cos\nsystem\ne"),
    "list of plain values for bytes": array(b"(K\x01t", data=b"](K\x01e"),
    "scalar of too many bytes": SCALAR + b"(" + F4 + b"C\x08" + b"\0" * 8 + b"tR.",
    "scalar of no dtype": SCALAR + b"(U\x02f4C\x04\0\0\0\0tR.",
    "buffer of a terabyte": FROM_BUFFER
    + b"(C\x04\0\0\0\0"
    + F4
    + b"("
    + number(10**12)
    + b"tU\x01CtR.",
    "encode with another codec": ENCODE + b"(U\x04trueU\x03zlbtR.",
    # sizes that opcodes claim
    "memo of 2**31 places": b"Nr\x00\x00\x00\x80.",
    "memo of 2**32 places": b"Nr\xff\xff\xff\xff.",
    "memo of protocol 0": b"Np9999999999\n.",
    "bytes of 2**62": b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b".",
    "bytes of 64 gigabytes": b"\x80\x04\x8e" + struct.pack("<Q", 2**36) + b".",
    "bytearray of 64 gigabytes": b"\x80\x05\x96" + struct.pack("<Q", 2**36) + b".",
    "text of 64 gigabytes": b"\x80\x04\x8d" + struct.pack("<Q", 2**36) + b".",
    "text of 4 gigabytes": b"X\xff\xff\xff\xff.",
    "frame of 64 gigabytes": b"\x80\x04\x95" + struct.pack("<Q", 2**36) + b".",
    "integer of 2 gigabytes": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "integer of a million digits": b"L" + b"9" * 10**6 + b"L\n.",
    # amplification
    "bytes made again and again": b"X"
    + struct.pack("<I", 2**20)
    + b"a" * 2**20
    + b"q\x00("
    + (ENCODE + b"(h\x00U\x06latin1tR") * 6000
    + b"t.",
}

HARMLESS: dict[str, bytes] = {
    "a million lists deep": b"]" * 10**6 + b"a" * (10**6 - 1) + b".",
    "a million tuples deep": b")" + b"\x85" * 10**6 + b".",
    "shared lists nested": b"]" + (b"q\x00](" + b"h\x00" * 10 + b"e") * 30 + b".",
    "integer of a megabyte": b"\x80\x02\x8b" + struct.pack("<i", 2**20) + b"\x7f" * 2**20 + b".",
    "array": pickle.dumps(np.ones((2, 3)), 2),
}
"""Files that are odd and do no harm: they are read, or refused in a sentence."""


def main(folder: Path, most: int) -> None:
    """Read every file of `folder` in `most` bytes of address space; a line of json each."""
    from bload.errors import InputError
    from datasets.annotations.problems import shown
    from datasets.annotations.read import read_pickles
    from datasets.annotations.unpickler import read_pickle

    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for path in sorted(folder.iterdir()):
        try:
            told = f"read: {shown(read_pickle(path))}"
            read_pickles(path, path)
        except InputError as error:
            told = str(error)
        print(json.dumps([path.name, told, _peak_mib()]), flush=True)


def _peak_mib() -> int:
    """Of this program alone: `resource` counts the process it was forked from, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
