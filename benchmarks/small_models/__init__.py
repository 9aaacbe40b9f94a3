"""Small models, whose steps are mostly what is around them."""
