"""Find faulty measurements from the measured data alone, describe them, and repair them."""
