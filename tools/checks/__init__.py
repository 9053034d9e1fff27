"""What an author asks of the exercise checks: `holes` looks for wrong answers that the cases let pass."""
