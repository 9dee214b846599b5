"""Ctrl-C reaches the tests, and the commands that they start, even from a background job.

A shell has its background jobs ignore SIGINT, and what they start inherits that.
"""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
