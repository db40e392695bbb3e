module bursar.invalid/tests/node/programs

go 1.26.0
