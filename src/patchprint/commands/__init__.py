"""The subcommands of ``patchprint``, one file each: flags in, library calls, result out. No algorithm lives here."""
