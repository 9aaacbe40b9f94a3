"""Does the proof of another precision let through what it should, and nothing else?"""
