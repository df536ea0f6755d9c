"""Agreement of scores with human labels, and calibrations fitted on them."""
