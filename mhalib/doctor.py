"""The doctor was here until version 0.3."""

raise ImportError("mhalib.doctor is now the package attention_doctor: write `from attention_doctor import examine`")
