module github.com/pinfold-dev/pinfold

go 1.26
