"""An example back end: Python kernels of the emulated device, a table of decompositions, shared helpers.

It stands for a real back end's sources wherever a change of one is looked at, and is not part of the product.
"""
