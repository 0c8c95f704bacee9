"""The type checker that the import hook of ``conftest.py`` puts around every function of wstar."""

import beartype

# an int where a float is expected is no error (PEP 484); everything else is checked on every call
typechecker = beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))
