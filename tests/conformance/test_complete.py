"""Every conformance case is encoded in a test that names it, or listed with the reason why not."""

import re
from pathlib import Path

from engines.not_yet_encoded import NOT_YET

ALL = """
W01 W02 W04 W05 W06 W07 W08 W10 W11 W12 W13 W17 W21 W22 W23 W24 W25 W26 W27 W28
J01 J02 J03 J04 J06 J07 J08 J10 J12 S01 S02 S04 S05
R01 R02 R04 R05 R06 R07 R08 R09 R10 R12 R13 R14 R15 R17 R18 R19 R20 R24 R25 R26
C01 C02 C03 C04 C05 C06 C09 O01 O02 O03 O04 O05 O06 O08 O10 O11 O12 O13 O14 O16
M01 M04 M07 M09 M10 M11 E01 E03 E05 E07 P01 P02 P03 P05 P08 P09 P10 P11 P15 P16 P17 P18 P19
EL01 EL02 EL03 EL04 EL06 EL07 EL08 EL09 EL11 EL12 EL14 EL20 T02 T03 T05 T06 T07 T08 T09 T10 T11 T12
"""


def encoded() -> set[str]:
    """The ids that the tests of this folder name."""
    tests = "\n".join(file.read_text() for file in Path(__file__).parent.glob("test_*cases.py"))
    return {found.upper() for found in re.findall(r"(?:test_|\")([a-zA-Z]{1,2}\d\d)[a-z]?(?=[_\"-])", tests)}


def test_no_case_is_forgotten() -> None:
    assert set(ALL.split()) - encoded() - set(NOT_YET) == set()


def test_what_is_listed_as_missing_is_a_case() -> None:
    assert set(NOT_YET) <= set(ALL.split())
