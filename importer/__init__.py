"""Convert PyTorch and Hugging Face checkpoints into files a Burn model loads, without PyTorch."""
