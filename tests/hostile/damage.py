"""Damage to the bytes of a whole file, and values as a hostile author writes them."""

from hypothesis import strategies as st

TEXTS = st.sampled_from(
    [
        *(
            "",
            " ",
            "\n",
            "\x00",
            "\x1b[2J",
            "\u202e",
            "\udcff",
            "a" * 300,
            "../../x",
            "/etc/passwd",
        ),
        *(
            "<script>x</script>",
            "`|`",
            "=1+1",
            "nan",
            "inf",
            "-1",
            "1e400",
            "9" * 5000,
            "${oc.env:HOME}",
        ),
    ]
) | st.text(max_size=20)
NUMBERS = st.one_of(
    st.integers(-3, 200),
    st.sampled_from([2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**70, 10**26, -(2**63)]),
    st.floats(),
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """The bytes of a file cut, flipped, repeated, with others in them, or whole."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(0, len(content) - 1)))
        match draw(st.integers(0, 5)):
            case 0:
                del content[at:]
            case 1 if content:
                content[at] ^= 1 << draw(st.integers(0, 7))
            case 2:
                content[at:at] = draw(st.binary(max_size=40))
            case 3:
                content[at : at + 8] = draw(st.sampled_from([b"\xff", b"\x7f", b"\0"])) * 8
            case 4:
                del content[at : at + draw(st.integers(1, 64))]
            case 5:
                content += content[at:]
    return bytes(content)
