import webdataset as wds
from torchvision.transforms import v2

URL = "/data/shards/train-{000000..000127}.tar"


def loader(batch_size, workers=8):
    """WebDataset batches in the workers, so that the loader itself has none to make: batch_size=None."""
    prepare = v2.Compose([v2.RandomResizedCrop(224), v2.ToTensor()])
    data = (
        wds.WebDataset(URL, shardshuffle=100, nodesplitter=wds.split_by_node)
        .shuffle(2000)
        .decode("pil")
        .to_tuple("jpg", "cls")
        .map_tuple(prepare, int)
        .batched(batch_size, partial=False)
    )
    return wds.WebLoader(data, batch_size=None, num_workers=workers, pin_memory=True).with_length(1000)
