"""Read and write the table of class names that lies next to a file of labels."""

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path

from outcrop.storage.workspace import whole_file


def class_table_path(path: str | Path) -> Path:
    """Return the path of the class table of a file or folder of labels: this path with ``.classes.toml`` at its end."""
    return Path(f"{path}.classes.toml")


def write_class_table(path: str | Path, classes: Iterable[object]) -> None:
    """Write the class names of a file of labels to the table next to it.

    The table has no entry for the codes 0 (not labelled) and 255 or -1 (uncertain).

    Parameters
    ----------
    path : path
        File of labels; the table is written to ``path + ".classes.toml"``.
    classes : list of str
        Code i + 1 means ``classes[i]``.
    """
    rows = [f"{code} = {json.dumps(str(name), ensure_ascii=False)}\n" for code, name in enumerate(classes, 1)]
    with whole_file(class_table_path(path)) as aside:
        opening = "# Codes of the labels; 0 is not labelled, 255 (-1 in format 8) uncertain.\n[classes]\n"
        aside.write_text(opening + "".join(rows), encoding="utf-8")


def read_class_table(path: str | Path) -> list[str]:
    """Read the class names of a file of labels from the table next to it.

    Returns
    -------
    classes : list of str
        Code i + 1 means ``classes[i]``; a code without a name is called ``code N``. Empty if the file has no table.
    """
    table = class_table_path(path)
    try:
        classes = tomllib.loads(table.read_text("utf-8"))["classes"]
        names = {int(code): str(name) for code, name in classes.items() if 0 < int(code) < 256}
        return [names.get(code, f"code {code}") for code in range(1, max(names) + 1)]
    except FileNotFoundError:
        return []
    except (KeyError, AttributeError, ValueError) as error:
        raise ValueError(
            f'{table} is not a class table ({error}); write lines such as 1 = "fault" under [classes].'
        ) from None
