"""The one exception for input that the user can mend."""


class InputError(ValueError):
    """Bad input, told in one sentence that names the thing and the way out.

    Entry points catch it, print the sentence and exit with status 2, without a traceback.
    """
