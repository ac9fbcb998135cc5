"""A model beside what a user would try first: baselines, paired scores, and a verdict in words."""
