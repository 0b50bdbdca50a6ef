"""What customers pay, and from when on they pay no shipping."""

import unittest

from basket import SHIPPING, total


class BasketTest(unittest.TestCase):
    """Orders below, at and above the limit."""

    def test_small_orders_pay_shipping(self) -> None:
        """An order of 10.00 pays 4.90 more."""
        assert total([400, 600]) == 1000 + SHIPPING

    def test_an_order_of_exactly_the_limit_is_sent_free(self) -> None:
        """An order of 50.00 pays 50.00."""
        paid = total([2000, 3000])
        assert paid == 5000, f"an order of 50.00 pays {paid / 100:.2f}"

    def test_large_orders_are_sent_free(self) -> None:
        """An order of 80.00 pays 80.00."""
        assert total([8000]) == 8000


if __name__ == "__main__":
    unittest.main()
