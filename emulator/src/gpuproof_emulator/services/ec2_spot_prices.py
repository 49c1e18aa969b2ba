"""`DescribeSpotPriceHistory` with the spot prices of the catalogue; moto's are a fraction of a cent."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from gpuproof_emulator.context import Context
from gpuproof_emulator.moto_journal import Journal
from gpuproof_emulator.protocol import AwsRequest, AwsResponse, xml_response

if TYPE_CHECKING:
    from gpuproof.catalogue import Catalogue

OPERATIONS = ("DescribeSpotPriceHistory",)


def handle(_: Context, journal: Journal, request: AwsRequest) -> AwsResponse:
    """Handle `DescribeSpotPriceHistory`; a type without a price in the catalogue keeps moto's."""
    response = journal.handle(request, read_only=True)
    if response.status != 200:
        return response
    root = ElementTree.fromstring(b"".join(response.body))  # noqa: S314 - moto has written it
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    for item in root.iterfind("spotPriceHistorySet/item"):
        price = _catalogue().price(item.findtext("instanceType", ""), request.region, market="spot")
        shown = item.find("spotPrice")
        if price is not None and shown is not None:
            shown.text = f"{price.usd_per_hour:.6f}"
    return xml_response(request, ElementTree.tostring(root, encoding="unicode"))


@cache
def _catalogue() -> Catalogue:
    from gpuproof.catalogue import Catalogue  # reads files, so only on first use
    from gpuproof.catalogue.tables import Tables

    return Catalogue(Tables())
