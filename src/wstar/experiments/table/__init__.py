"""``wstar fit`` and ``wstar predict``: from a table's columns to directions, and to words about them."""
