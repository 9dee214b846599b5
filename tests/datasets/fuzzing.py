"""Damage images at random and decode them: run apart, for a decoder may end the process.

    python -m tests.datasets.fuzzing FOLDER torchcodec|pillow COUNT [FIRST]

Half of the damaged PNGs get sound checksums again, so that the damage reaches the decoder.
"""

import json
import random
import struct
import sys
import tempfile
import zlib
from pathlib import Path

from bload.errors import InputError
from datasets.frames import decode as decoders


def damage(data: bytes, rng: random.Random) -> bytes:
    """`data` with flipped bits, or cut, or with some bytes taken out or put in."""
    damaged, kind = bytearray(data), rng.randrange(5)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(damaged))
        if kind <= 1:
            damaged[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del damaged[max(at, 1) :]
        elif kind == 3:
            del damaged[max(at, 1) : at + rng.randrange(1, 20)]
        else:
            damaged[at:at] = rng.randbytes(rng.randrange(1, 9))
    return bytes(damaged)


def with_sound_checksums(data: bytes) -> bytes:
    """The PNG `data` with the checksum of each whole chunk written anew."""
    sound, at = bytearray(data), 8
    while at + 12 <= len(data):
        end = at + 8 + struct.unpack_from(">I", data, at)[0]
        if end + 4 > len(data):
            break
        sound[end : end + 4] = struct.pack(">I", zlib.crc32(data[at + 4 : end]))
        at = end + 4
    return bytes(sound)


def main() -> None:
    folder, installed, count, first = (*sys.argv[1:], "0")[:4]
    if installed == "pillow":
        decoders._torchcodec = lambda: None
    images = [path.read_bytes() for path in sorted(Path(folder).iterdir())]
    told = {"decoded": 0, "refused and named": 0, "refused": 0}
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "frame"
        for number in range(int(first), int(first) + int(count)):
            rng = random.Random(number)
            data = damage(rng.choice(images), rng)
            if rng.random() < 0.5 and data.startswith(b"\x89PNG"):
                data = with_sound_checksums(data)
            path.write_bytes(data)
            try:
                decoders.decode(path)
                told["decoded"] += 1
            except InputError as error:
                told["refused and named" if str(path) in str(error) else "refused"] += 1
    print(json.dumps(told))


if __name__ == "__main__":
    main()
