"""Entente, Euler and Jbeil with every switch: other readings of the papers, ablations, published settings.

They are plug-ins like any other (`rule = "lab-entente"`, `name = "lab-euler"`, `name = "lab-jbeil"`). With
their defaults they compute what the product's plug-ins compute.
"""
