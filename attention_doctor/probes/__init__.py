"""What is seen from outside: each probe calls the layer at the sizes of the setting, and adds to the report."""
