def build(folder):
    (folder / "offset.txt").write_text("40")
