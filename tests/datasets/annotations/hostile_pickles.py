"""Pickles that try to run code, to change what is allowed, or to forge pointers, for tests."""

import pickle
import struct

DTYPE = b"cnumpy\ndtype\n"
NDARRAY = b"cnumpy\nndarray\n"
RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
SCALAR = b"cnumpy.core.multiarray\nscalar\n"
FROM_BUFFER = b"cnumpy.core.numeric\n_frombuffer\n"
ENCODE = b"c_codecs\nencode\n"
F4 = DTYPE + b"(U\x02f4I00\nI01\ntR(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
FLAT_OBJECT = DTYPE + b"(U\x01OI00\nI01\ntR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
BECOMES_OBJECT = DTYPE + b"(U\x02U2I00\nI01\ntR(K\x03U\x01|U\x01ONNK\x08K\x08K\x3ftb"


def number(value: int) -> bytes:
    """Return the opcode of an integer of up to 255 bytes."""
    data = pickle.encode_long(value)
    return b"\x8a" + struct.pack("<B", len(data)) + data


TERA = number(10**12)


def array(shape: bytes, dtype: bytes = F4, data: bytes = b"C\x04\0\0\x80\x3f") -> bytes:
    """Return a pickle of an empty array that gets a state."""
    empty = RECONSTRUCT + b"(" + NDARRAY + b"(K\x00tU\x01btR"
    return empty + b"(K\x01" + shape + dtype + b"I00\n" + data + b"tb."


HOSTILE: dict[str, bytes] = {
    # names, and the ways to call them
    "global": b"cos\nsystem\n(U\x04truetR.",
    "global of protocol 4": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
    "inst": b"(U\x04trueios\nsystem\n.",
    "obj": b"(cos\nsystem\nU\x04trueo.",
    "newobj": b"\x80\x02csubprocess\nPopen\nU\x04true\x85\x81.",
    "builtin of an allowed module": b"cnumpy\nload\n(U\x01xtR.",
    "dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0edtype.__init__\x93.",
    "extension code": b"\x80\x02\x82\x01.",
    "persistent id": b"Pthere\n.",
    "out-of-band buffer": b"\x80\x05\x97.",
    # changing what is allowed
    "state of a constructor": ENCODE + b"}U\x01aK\x01sb.",
    "slots of a constructor": ENCODE + b"(N}U\x08__call__K\x01stb.",
    "class of a constructor": ENCODE + b"(N}U\x09__class__" + DTYPE + b"stb.",
    "code of a constructor": SCALAR + b"(N}U\x08__code__U\x01xstb.",
    "attribute of a constructor": RECONSTRUCT + b"}U\x01aK\x01sb.",
    "defaults of a constructor": SCALAR + b"(N}U\x0c__defaults__)stb.",
    "keywords of a constructor": FROM_BUFFER + b"(N}U\x0e__kwdefaults__}stb.",
    "function of a constructor": SCALAR + b"(N}U\x09_function" + DTYPE + b"stb.",
    "state of a class": DTYPE + b"(N}U\x08__init__" + NDARRAY + b"stb.",
    "array for an array class": NDARRAY + b"(N}U\x0c__setstate__" + DTYPE + b"stb.",
    # bytes that would count as pointers, and other arguments that numpy must not see
    "array of objects from bytes": array(b"(K\x01t", FLAT_OBJECT, b"C\x08AAAAAAAA"),
    "dtype that becomes objects": array(b"(K\x01t", BECOMES_OBJECT, b"C\x08AAAAAAAA"),
    "dtype of objects": DTYPE + b"(U\x01OtR.",
    "dtype of fields": DTYPE + b"(U\x05f4,O8tR.",
    "dtype from an array": array(b"(K\x01t", NDARRAY + b"(K\x01U\x01OtR"),
    "array of no dtype": array(b"(K\x01t", b"U\x02f4"),
    "reconstruct another class": RECONSTRUCT + b"(" + DTYPE + b"(K\x00tU\x01btR.",
    "negative shape": array(b"(J\xff\xff\xff\xffJ\xff\xff\xff\xfft"),
    "shape that overflows": array(b"(" + number(2**62) + b"K\x04K\x00K\x01t"),
    "shape larger than the data": array(b"(" + TERA + b"t"),
    "a thousand dimensions": array(b"(" + b"K\x01" * 1000 + b"t"),
    "list for bytes": array(b"(K\x01t", data=b"](K\x01e"),
    "scalar of too few bytes": SCALAR + b"(" + F4 + b"C\x01\0tR.",
    "buffer of a terabyte": FROM_BUFFER + b"(C\x04\0\0\0\0" + F4 + b"(" + TERA + b"tU\x01CtR.",
    "encode with another codec": ENCODE + b"(U\x04trueU\x03zlbtR.",
    "integer of a million digits": b"L" + b"9" * 10**6 + b"L\n.",
}
