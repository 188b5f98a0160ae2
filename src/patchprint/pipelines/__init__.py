"""What users do from end to end: tune a descriptor to photos, photos to a 3D model, the demo."""
