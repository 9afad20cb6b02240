"""A saved mapper has the same scores in another process, and a damaged folder gives a one-line error."""

import json
import subprocess
import sys

import numpy as np
import pytest

import outcrop as oc
from outcrop.mapping.saved import write_mapper

FRESH = """
import sys
import numpy as np
import outcrop as oc
np.save(sys.argv[3], oc.load_mapper(sys.argv[1]).scores(np.load(sys.argv[2])))
"""


def make(kind):
    """Return a small unfitted mapper."""
    return {
        "exact": oc.LabelMapper(5, variant="exact", iterations=10, min_confidence=0.6),
        "published": oc.LabelMapper(5, variant="published", iterations=10),
    }[kind]


@pytest.fixture(scope="module")
def shown():
    """Return a few patches and their classes."""
    patches = np.random.default_rng(0).random((16, 32, 32), dtype=np.float32)
    patches[8:] = (patches[8:] + np.roll(patches[8:], 1, axis=2)) / 2  # smooth along the traces
    return patches, ["rough"] * 8 + ["other"] * 8


@pytest.fixture
def folder(shown, tmp_path):
    """Return the folder of a saved mapper."""
    make("exact").fit(*shown).save(tmp_path / "mapper")
    return tmp_path / "mapper"


@pytest.mark.parametrize("kind", ["exact", "published"])
def test_scores_of_a_loaded_mapper_are_the_same_to_the_bit(kind, shown, tmp_path):
    """A new process loads the folder; parameters and classes are the same too."""
    patches, _ = shown
    mapper = make(kind).fit(*shown)
    mapper.save(tmp_path / "mapper")
    np.save(tmp_path / "patches.npy", patches)
    places = [str(tmp_path / name) for name in ("mapper", "patches.npy", "scores.npy")]
    subprocess.run([sys.executable, "-c", FRESH, *places], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "scores.npy"), mapper.scores(patches))
    again = oc.load_mapper(tmp_path / "mapper")
    assert type(again) is type(mapper) and again.get_params() == mapper.get_params()
    assert again.classes_.tolist() == mapper.classes_.tolist()
    np.testing.assert_array_equal(again.predict(patches), mapper.predict(patches))


def test_saving_replaces_only_a_mapper(shown, folder, tmp_path):
    """A second mapper replaces the first; a folder with other content is refused and stays."""
    make("exact").set_params(atoms_per_class=4).fit(*shown).save(folder)
    assert oc.load_mapper(folder).atoms_per_class == 4
    (tmp_path / "notes").mkdir()
    with pytest.raises(ValueError, match="is not a mapper"):
        oc.load_mapper(folder).save(tmp_path / "notes")


def test_a_damaged_or_foreign_folder_is_refused_in_one_line(folder, tmp_path):
    """Truncated arrays, truncated or edited JSON, another format or kind, and no mapper give clear errors."""
    about, arrays = (folder / "mapper.json").read_text(), (folder / "arrays.npz").read_bytes()
    edited = json.loads(about)
    cases = [
        ("arrays.npz", arrays[: len(arrays) // 2], "damaged"),
        ("arrays.npz", arrays[:-9], "damaged"),
        ("mapper.json", about[:40].encode(), "damaged"),
        ("mapper.json", json.dumps(edited | {"classes": ["other", "rough"]}).encode(), "digest"),
        ("mapper.json", json.dumps(edited | {"format": 99}).encode(), "format 99"),
        ("mapper.json", b"[]", "damaged"),
    ]
    for name, content, message in cases:
        (folder / "mapper.json").write_text(about)
        (folder / "arrays.npz").write_bytes(arrays)
        (folder / name).write_bytes(content)
        with pytest.raises(ValueError, match=message) as error:
            oc.load_mapper(folder)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="holds no mapper"):
        oc.load_mapper(tmp_path)


@pytest.mark.parametrize(("kind", "mapping"), [("EncoderMapper", "encoder"), ("TextureMapper", "texture")])
def test_a_mapper_of_a_removed_mapping_gives_a_remedy(kind, mapping, tmp_path):
    """The error for a mapper of an earlier version names a remedy."""
    write_mapper(tmp_path / "mapper", {"kind": kind, "classes": ["fault", "other"]}, {"weights": np.zeros(3)})
    with pytest.raises(
        ValueError, match=f"fitted by mapping '{mapping}', which this version no longer has; fit a new mapper"
    ):
        oc.load_mapper(tmp_path / "mapper")


def test_a_mapping_of_an_earlier_version_is_replaced_with_a_warning():
    """The name of a removed mapping of patches gives that of the paper; other names are unknown."""
    with pytest.warns(UserWarning, match="'texture' was removed"):
        assert oc.MAPPERS["texture"]().variant == "paper"
    assert "texture" not in oc.MAPPERS
    with pytest.raises(KeyError):
        oc.MAPPERS["nothing"]
