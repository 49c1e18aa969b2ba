"""The doctor's tables name their sources and fit the catalogue."""

from gpuproof.doctor.tables import FOLDER, table
from support.framework_builds import CATALOGUE


def test_rows_of_the_tables_name_their_source() -> None:
    sources = {row["source"] for row in table("stack/sources")}
    for path in (FOLDER / "stack").glob("*.csv"):
        if path.stem != "sources":
            assert {row["source"] for row in table(f"stack/{path.stem}")} <= sources, path.name


def test_every_pci_id_means_a_gpu_of_the_catalogue() -> None:
    assert {row["gpu"] for row in table("stack/pci_gpus")} <= set(CATALOGUE.tables.gpus)
