"""Does the patch of a plan gain what the plan gains, and train the same?"""
