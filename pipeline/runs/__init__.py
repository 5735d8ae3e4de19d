"""The run folder: its layout, record, metric log, checkpoint store and listing; knows no torch."""
