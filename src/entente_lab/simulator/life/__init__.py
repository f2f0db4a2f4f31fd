"""The lifelike company: what the classic one leaves out of an ordinary working week."""
