def proven(*a): raise NotImplementedError
