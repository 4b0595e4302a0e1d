"""How oneDNN is fetched, verified, built from source and cached.

Standard library only: this runs before anything is installed. ``recipe.ensure()`` is the way in;
``../onednn.py`` is its command line and ``../onednn.json`` holds every pin and CMake option.
"""
