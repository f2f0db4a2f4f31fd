from entente.cli import main

main()
