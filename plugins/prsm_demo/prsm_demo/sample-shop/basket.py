"""What a customer pays; all prices are in cents."""

from __future__ import annotations

SHIPPING = 490
FREE_SHIPPING_FROM = 5000


def shipping(subtotal: int) -> int:
    """Return what sending an order of this value costs."""
    return 0 if subtotal > FREE_SHIPPING_FROM else SHIPPING


def total(prices: list[int]) -> int:
    """Return what the customer pays: the articles and the shipping."""
    subtotal = sum(prices)
    return subtotal + shipping(subtotal)
