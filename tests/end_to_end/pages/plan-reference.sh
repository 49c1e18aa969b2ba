. "$PAGE_FILES/plan.sh"
