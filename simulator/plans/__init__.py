"""Plans that come along: each is a TOML file that says in its first line what it does. `simulator plan list`."""
