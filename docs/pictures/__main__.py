"""Draws the pictures of the pages anew: `make pictures`."""

from docs.pictures import architecture
from docs.pictures.scenes import FOLDER, drawn

if __name__ == "__main__":
    pictures = drawn()
    for old in FOLDER.glob("*.svg"):
        if old.name not in pictures:
            old.unlink()
    for name, picture in pictures.items():
        (FOLDER / name).write_text(picture, encoding="utf-8")
    architecture.FILE.write_text(architecture.drawn(), encoding="utf-8")
    print(f"{len(pictures)} pictures in {FOLDER}, and {architecture.FILE}")
