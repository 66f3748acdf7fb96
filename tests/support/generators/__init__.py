"""What tests run: random pipelines with inputs, and pipelines that several tests share."""
