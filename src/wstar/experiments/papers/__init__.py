"""``wstar reproduce``: the experiments of both papers, part by part."""
