"""A saved mapper comes back in another process with the same scores, and a damaged folder is refused in one line."""

import json
import subprocess
import sys

import numpy as np
import pytest
from test_texture import textures

import outcrop as oc

FRESH = """
import sys
import numpy as np
import outcrop as oc
np.save(sys.argv[3], oc.load_mapper(sys.argv[1]).scores(np.load(sys.argv[2])))
"""


def make(kind):
    """A small unfitted mapper."""
    return {
        "texture": oc.TextureMapper(members=2, patches_per_class=8, n_features=60, rounds=4),
        "encoder": oc.EncoderMapper(members=1, patches_per_class=8, n_features=40, rounds=2),
        "exact": oc.LabelMapper(5, variant="exact", iterations=10, min_confidence=0.6),
        "published": oc.LabelMapper(5, variant="published", iterations=10),
    }[kind]


@pytest.fixture(scope="module")
def shown():
    """A few patches and their classes."""
    patches, _, classes = textures(8, size=32)
    return patches, classes


@pytest.fixture
def folder(shown, tmp_path):
    """A saved mapper."""
    make("texture").fit(*shown).save(tmp_path / "mapper")
    return tmp_path / "mapper"


@pytest.mark.parametrize("kind", ["texture", "encoder", "exact", "published"])
def test_scores_of_a_loaded_mapper_are_the_same_to_the_bit(kind, shown, tmp_path):
    """In a fresh process, which knows nothing but the folder; parameters, classes and shares come back too."""
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
    assert getattr(again, "shares_", None) == getattr(mapper, "shares_", None)
    np.testing.assert_array_equal(again.predict(patches), mapper.predict(patches))


def test_a_mapper_replaces_a_mapper_and_nothing_else(shown, folder, tmp_path):
    """Saved twice it is the second; a folder of something else stays."""
    make("texture").set_params(members=1).fit(*shown).save(folder)
    assert oc.load_mapper(folder).members == 1
    (tmp_path / "notes").mkdir()
    with pytest.raises(ValueError, match="is no mapper"):
        oc.load_mapper(folder).save(tmp_path / "notes")


def test_a_damaged_or_foreign_folder_is_refused_in_one_line(folder, tmp_path):
    """Arrays cut short, JSON cut short or edited, another format or kind, and no mapper at all."""
    about, arrays = (folder / "mapper.json").read_text(), (folder / "arrays.npz").read_bytes()
    edited = json.loads(about)
    cases = [
        ("arrays.npz", arrays[: len(arrays) // 2], "damaged"),
        ("arrays.npz", arrays[:-9], "damaged"),
        ("mapper.json", about[:40].encode(), "damaged"),
        ("mapper.json", json.dumps(edited | {"classes": ["other", "steep"]}).encode(), "digest"),
        ("mapper.json", json.dumps(edited | {"format": 99}).encode(), "format 99"),
        ("mapper.json", b"[]", "damaged"),
    ]
    for name, content, says in cases:
        (folder / "mapper.json").write_text(about)
        (folder / "arrays.npz").write_bytes(arrays)
        (folder / name).write_bytes(content)
        with pytest.raises(ValueError, match=says) as error:
            oc.load_mapper(folder)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="holds no mapper"):
        oc.load_mapper(tmp_path)
