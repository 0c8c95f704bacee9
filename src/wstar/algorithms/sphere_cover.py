def bound_field(*a): raise NotImplementedError
