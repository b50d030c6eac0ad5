"""What a step is made of: the flow of each letter, schemes of letters, exp(−tS)v, and S remembered over batches."""
