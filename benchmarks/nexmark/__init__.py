"""Nexmark: queries over an auction house, written in Fluvial's language and checked against plain Python.

Source: Tucker et al., NEXMark, a benchmark for queries over data streams (2002); the numbering is that of Apache Beam
and Flink.
"""
