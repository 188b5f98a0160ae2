"""L2-Net's Fig. 3b and 3c: the values of its descriptors are spread around zero, and so are their signs."""

from patchprint.studies import Case, Column, Measure, Profiles, Study

study = Study(
    summary="distribution of the values of L2-Net's descriptors, and means of their signs",
    data={"train": "store to learn from: HPatches", "test": "another one: UBC"},
    cases=(Case({"method": "L2-Net"}, "l2net", learns="train", settings={"hold_out": False}),),
    measures={"values": Measure("values", on="test")},
    columns=(
        Column("mean of a value", "values.mean", digits=4),
        Column("std of a value", "values.std", digits=4),
        Column("mean |mean of a sign|", "values.mean_bit_mean", digits=3),
        Column("largest |mean of a sign|", "values.largest_bit_mean", digits=3),
    ),
    seeds=(0,),
    figures=(
        Profiles("values", shades=("density",), xlabel="value"),
        Profiles("values", curves=("bit_means",), xlabel="number of the bit"),
    ),
    notes="One patch each of up to 100,000 points. Published in a figure only: values near a normal distribution around zero, "
    "and signs with means near zero.",
)
