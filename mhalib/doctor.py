"""Where the doctor was until version 0.3."""

raise ImportError("mhalib.doctor is the package attention_doctor now: write `from attention_doctor import examine`")
